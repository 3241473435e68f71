"""The only place that reads an author's OpenCL C: files that it includes, conditionals, and misuse, by a front end's tree.

Not for portbar's own text: its templates know what they define.
"""
