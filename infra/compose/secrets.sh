#!/bin/sh
# Make the secrets of docker-compose.yml, once. They stay in a folder that only you can enter; inside the containers
# they are files, in no environment, image or log. Run again, it changes nothing; delete the folder for new ones.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets
cd secrets
umask 022

random() {
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}

if [ ! -e s3_identities.json ]; then
    key=$(random | cut -c1-20)
    secret=$(random)
    printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$key" "$secret" > aws_credentials
    printf '{"identities": [{"name": "vlmsweep", "credentials": [{"accessKey": "%s", "secretKey": "%s"}], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}\n' \
        "$key" "$secret" > s3_identities.json
fi
[ -e ray_token ] || random > ray_token
[ -e grafana_password ] || random > grafana_password
echo "secrets are in $(pwd)"
