"""The closed interface vocabulary of the small profiles: every word a `tiny` or `smoke` screen can show.

A model of a few million parameters trained from scratch reads only words it has seen, so at this size the
interfaces draw on 120 words, half of them Chinese, and "held out" means unseen screens, layouts, themes and apps
made of seen words. Full-scale profiles have no such limit.
"""

from typing import Literal

Locale = Literal["en", "zh"]

ENGLISH: tuple[str, ...] = tuple(
    "Save Open Close Send Cancel Login Next Back Search Delete Edit Copy Paste Print Share Help Menu Home Cart Buy "
    "Play Stop Mute Zoom Sort Filter Sync Upload Reset Apply Add Remove Reply Forward Archive Inbox Draft Call Video "
    "Photo Album Music Map Route Hotel Flight Ticket Order Pay Wallet Bill Bank Alarm Clock Timer Note Task Event "
    "Settings Profile".split()
)
CHINESE: tuple[str, ...] = tuple(
    "保存 打开 关闭 发送 取消 登录 下一步 返回 搜索 删除 编辑 复制 粘贴 打印 分享 帮助 菜单 首页 购物车 购买 "
    "播放 停止 静音 放大 排序 筛选 同步 上传 重置 应用 添加 移除 回复 转发 归档 收件箱 草稿 通话 视频 照片 相册 "
    "音乐 地图 路线 酒店 航班 车票 订单 支付 钱包 账单 银行 闹钟 时钟 计时 笔记 任务 日程 设置 我的".split()
)
WORDS: dict[Locale, tuple[str, ...]] = {"en": ENGLISH, "zh": CHINESE}
