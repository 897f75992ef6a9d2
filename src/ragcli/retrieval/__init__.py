"""Search: a request becomes ranked hits; a pattern becomes exact matches."""
