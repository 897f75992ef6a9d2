"""A question becomes ranked hits; a pattern becomes exact ones."""
