"""What puzzles are made of: words by topic, phrases, and icons with their names. Each belongs to one split."""

from __future__ import annotations

from assets.agent.vocabulary import Locale
from assets.synthetic_samples.themes import Split

WORDS: dict[Split, dict[Locale, dict[str, list[str]]]] = {
    "train": {
        "en": {
            "fruit": "apple pear plum grape cherry mango peach olive".split(),
            "animals": "horse otter rabbit tiger goose camel sheep zebra".split(),
            "tools": "hammer chisel ladder shovel pliers needle wrench saw".split(),
            "weather": "storm frost thunder breeze mist sunshine hail drizzle".split(),
        },
        "zh": {
            "fruit": "苹果 葡萄 樱桃 芒果 桃子 西瓜 荔枝 柠檬".split(),
            "animals": "老虎 兔子 骆驼 绵羊 斑马 狐狸 松鼠 大象".split(),
            "tools": "锤子 梯子 铁锹 剪刀 钳子 锯子 扳手 凿子".split(),
            "weather": "雷雨 霜冻 微风 大雾 晴天 冰雹 台风 小雪".split(),
        },
    },
    "heldout": {
        "en": {
            "fruit": "quince lemon melon papaya apricot fig kiwi lychee".split(),
            "animals": "badger heron lizard donkey falcon walrus mole bison".split(),
            "furniture": "bench cabinet stool wardrobe mirror cushion desk couch".split(),
            "music": "violin trumpet cello flute banjo harp organ drum".split(),
        },
        "zh": {
            "fruit": "石榴 菠萝 草莓 木瓜 杏子 山楂 枇杷 橙子".split(),
            "animals": "刺猬 海豹 孔雀 驴子 猎鹰 河马 青蛙 袋鼠".split(),
            "furniture": "长凳 书柜 衣橱 镜子 靠垫 沙发 茶几 板凳".split(),
            "music": "钢琴 竖琴 笛子 二胡 琵琶 唢呐 古筝 小号".split(),
        },
    },
}
TOPIC_NAMES: dict[str, dict[Locale, str]] = {
    "fruit": {"en": "fruit", "zh": "水果"},
    "animals": {"en": "animals", "zh": "动物"},
    "tools": {"en": "tools", "zh": "工具"},
    "weather": {"en": "kinds of weather", "zh": "天气"},
    "furniture": {"en": "pieces of furniture", "zh": "家具"},
    "music": {"en": "musical instruments", "zh": "乐器"},
}

PHRASES: dict[Split, dict[Locale, list[str]]] = {
    "train": {
        "en": [
            "better late than never", "actions speak louder than words", "look before you leap",
            "practice makes perfect", "time heals all wounds", "honesty is the best policy",
        ],
        "zh": "画蛇添足 守株待兔 亡羊补牢 井底之蛙 水滴石穿 刻舟求剑 对牛弹琴 一鸣惊人 雪中送炭".split(),
    },
    "heldout": {
        "en": [
            "every cloud has a silver lining", "curiosity killed the cat", "still waters run deep",
            "strike while iron is hot",
        ],
        "zh": "掩耳盗铃 愚公移山 杯弓蛇影 狐假虎威 胸有成竹 叶公好龙".split(),
    },
}  # fmt: skip
"""Sayings whose words (in Chinese, characters) are all different."""

ICON_NAMES: dict[Split, dict[str, str]] = {
    "train": {
        "home": "房子", "bell": "铃铛", "mail": "信封", "camera": "相机", "star": "星星", "heart": "爱心",
        "flag": "旗子", "clock": "时钟", "key": "钥匙", "gift": "礼物", "cup": "杯子", "leaf": "叶子",
        "shirt": "衬衫", "bulb": "灯泡", "plane": "飞机", "car": "汽车", "moon": "月亮", "cloud": "云朵",
        "scissors": "剪刀", "trophy": "奖杯", "shoe": "鞋子", "book": "书本", "bag": "袋子", "truck": "卡车",
    },
    "heldout": {
        "lock": "锁", "phone": "电话", "bus": "公交车", "sun": "太阳", "drop": "水滴", "fire": "火焰",
        "bike": "自行车", "bed": "床", "bowl": "碗", "flower": "花朵", "tv": "电视", "brush": "画笔",
        "door": "门", "fan": "风扇", "briefcase": "公文包", "paw": "爪印",
    },
}  # fmt: skip
"""Name of an icon of `runtime/icons.yaml` -> its Chinese name."""
