"""Which of two groundings do people find better? A study of that on a local page, and what came out.

``pairs`` finds what can be compared, ``book`` keeps items and ratings in SQLite, ``results`` counts as Cyclical's
Sec. 4.5 does, ``app`` is the page.
"""
