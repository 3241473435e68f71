"""Surveys of many hosts."""
