"""Models of portbar's protocols, checked by searching all that can happen: `python -m models.spin`."""
