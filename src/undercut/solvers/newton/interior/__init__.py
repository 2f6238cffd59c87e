"""Parts of interior point methods: kinks and penalties as a program, its equations, its steps and what they prove."""
