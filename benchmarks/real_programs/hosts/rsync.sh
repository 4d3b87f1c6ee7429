# sshd on the first host; the second copies a file of 150 MB by rsync over ssh.
set -e
first=${GRADWIRE_HOSTS%% *}
served=/run/served
if [ "$GRADWIRE_HOST" = "$first" ]; then
  mkdir -p /run/sshd $served
  head -c 150000000 /dev/urandom >$served/file
  /usr/sbin/sshd -D -p 2222 -h "$KEYS/host" -o "AuthorizedKeysFile=$KEYS/user.pub" -o StrictModes=no -o PidFile=none -o UsePAM=no -o LogLevel=QUIET &
  sleep 5
  kill $!
  exit
fi
sleep 1
python3 "$SCRIPTS/timed.py" file rsync --whole-file --inplace "$first:$served/file" "$TMPDIR/file" \
  -e "ssh -p 2222 -i $KEYS/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
