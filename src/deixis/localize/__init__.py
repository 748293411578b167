"""From attention or heat to a box: one file for each rule.

"attention" (``attention``), "vote" (``votes``), "heat" (``heat_rules``), "alpha" (``alpha``) and
"threshold" (``threshold``) are the names of the rules in :data:`deixis.types.Place` and :data:`deixis.types.HeatPlace`.
"""
