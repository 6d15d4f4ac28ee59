"""Protocol classes for uvicorn, with bounds that uvicorn leaves out."""
