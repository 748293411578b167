"""User study: human preference between the boxes of two systems, on a local web page.

``pairs`` matches the boxes of two systems, ``database`` stores items and ratings in SQLite, ``results`` computes the
statistics of Cyclical's Sec. 4.5, ``app`` serves the page.
"""
