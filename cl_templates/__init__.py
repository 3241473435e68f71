"""Mako templates of portbar's OpenCL C, installed with the package as data."""
