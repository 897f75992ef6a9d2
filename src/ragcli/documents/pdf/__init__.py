"""PDF files: text extraction, page layout, reflow, headings, metadata, OCR."""
