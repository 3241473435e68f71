"""Shared by the tests of commands on folders of records."""

from __future__ import annotations

from portbar.records import slug
from portbar.survey.report.index import BEGIN, END
from tests.records_support import device

#: An index page that is out of date, and the name of the record of `records_support.device`.
PAGE = f"# Mine\n\n{BEGIN}\nold\n{END}\n\nafter\n"
SLUG = slug(device())
