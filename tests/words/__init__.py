"""Plain words: the patterns that portbar's texts avoid (`words.toml`), and a check that finds them."""
