# An MCP server of one tool, in nothing but a POSIX shell: it runs in the barest of boxes.
# Every answer comes with a line of log before it, both in one write.
log='{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"called"}}'
answer() {
  printf '%s\n{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$log" "$id" "$1"
}
while IFS= read -r line; do
  id=${line##*'"id": '}
  id=${id%%[!0-9]*}
  case $line in
    *'"method": "initialize"'*)
      answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"interop","version":"1"}}' ;;
    *'"method": "tools/list"'*)
      answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}' ;;
    *'"method": "tools/call"'*)
      answer '{"content":[{"type":"text","text":"echo"}]}' ;;
  esac
done
