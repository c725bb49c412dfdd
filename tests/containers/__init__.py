"""The image and docker-compose.yml in podman: `make test-containers`."""
