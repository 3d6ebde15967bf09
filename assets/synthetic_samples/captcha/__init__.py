"""Full-scale CAPTCHA puzzles: self-drawn, in a phone's or a browser's page, with an answer that is true by construction
and checked by search. `latent.py` says how a type is made."""
