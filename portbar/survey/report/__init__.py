"""Reads records: compares them, and makes a page of a folder of them.

Not for measuring (`portbar.survey`), nor for checking what a stranger sent (`portbar.records`).
"""
