"""Reads valid records: compares them, and makes a page of a folder of them."""
