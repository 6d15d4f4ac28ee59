"""OpenAI's requests and answers, for the routes under ``/v1`` that translate."""
