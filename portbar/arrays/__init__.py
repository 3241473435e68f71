"""Operations on arrays from the host's side: `portbar.reduce`."""
