"""How the text of look-back, `cl_templates/scan/look_back.mako`, calls what is around it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LookBack:
    """Names in one text that looks back.

    Attributes
    ----------
    name : str
        What functions begin with.
    value : str
        The type of a tile's value.
    join : str
        The function that combines two.
    space : str
        The address space of what is found.
    polls : str
        Looks at a tile before, until it is computed here.
    public : bool
        Whether words are worked on by the functions of portbar/atomics.h, or by those of one fixed order each.
    """

    name: str
    value: str
    join: str
    space: str
    polls: str
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
