"""`python -m tests.tools.demo_data`: rebuild the committed sample data."""

from tests.tools.demo_data.build import main

main()
