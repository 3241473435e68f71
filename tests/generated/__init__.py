"""Random right programs over portbar's primitives, and an interpreter that says what each must come to."""
