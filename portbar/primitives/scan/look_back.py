"""How the text of look-back, `cl_templates/scan/look_back.mako`, calls what is around it."""

from __future__ import annotations

from portbar.records.dataclass import dataclass


@dataclass(frozen=True)
class LookBack:
    """Names in one text that looks back."""

    #: Prefix of the functions.
    name: str
    #: The type of a tile's value.
    value: str
    #: The function that combines two.
    join: str
    #: The address space of what is found.
    space: str
    #: Looks at a tile before, until it is computed here.
    polls: str
    #: Whether words are worked on by the functions of portbar/atomics.h, or by those of one fixed order each.
    public: bool = False

    def load(self, at: str) -> str:
        """A relaxed load."""
        return self._word("load", "relaxed", at)

    def load_acquire(self, at: str) -> str:
        """A load with acquire order."""
        return self._word("load", "acquire", at)

    def store(self, at: str, value: str) -> str:
        """A relaxed store."""
        return self._word("store", "relaxed", at, value)

    def store_release(self, at: str, value: str) -> str:
        """A store with release order."""
        return self._word("store", "release", at, value)

    def add(self, at: str, value: str) -> str:
        """Return a relaxed addition that returns the old value."""
        return (
            self._word("fetch_add", "relaxed", at, value) if self.public else f"portbar_word_add_relaxed({at}, {value})"
        )

    def _word(self, what: str, order: str, *args: str) -> str:
        given = ", ".join(args)
        if self.public:
            return f"portbar_atomic_{what}_explicit({given}, memory_order_{order}, memory_scope_device)"
        return f"portbar_word_{what}{'' if order == 'relaxed' else f'_{order}'}({given})"
