import { fileURLToPath } from 'node:url';
import type { ToolboxServer } from '../../../src/agent/mcp/toolbox-server.ts';

/** An MCP server in a shell: it starts in two milliseconds, so that thousands of them can. */
const serve = `
serve() {
  while read -r line; do
    id=\${line##*'"id":'}; id=\${id%%[,\\}]*}
    case $line in
      *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}' ;;
      *'"tools/list"'*) result='{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}' ;;
      *'"tools/call"'*) result='{"content":[]}' ;;
      *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\\n' "$id" "$result"
  done
}
`;

/** Longer than any run: what is found after it was left there. */
const sleeper = 'sleep 3600';
const forEver = 'while :; do sleep 1; done';

/** What a server is like, as a shell script after {@link serve}. */
export const shellServers: Readonly<Record<string, string>> = {
  plain: 'serve',
  'starts slowly': 'sleep 0.2; serve',
  'never speaks': sleeper,
  'ignores SIGTERM and its stdin': `trap '' TERM HUP INT; serve; ${forEver}`,
  'has a child': `${sleeper} & serve`,
  'has a child that holds its stdout': `( trap '' TERM; ${forEver} ) & serve`,
  'has a child in a session of its own': `setsid ${sleeper} < /dev/null > /dev/null 2>&1 & serve`,
  'leaves a child and ends': `setsid sh -c "trap '' TERM; ${forEver}" < /dev/null > /dev/null 2>&1 & exit 0`,
  'has a child that has children': `( for i in 1 2 3; do setsid ${sleeper} & done; wait ) < /dev/null > /dev/null 2>&1 & serve`,
  'starts a child every moment': `( for i in 1 2 3 4 5 6 7 8; do setsid ${sleeper} & sleep 0.02; done ) < /dev/null > /dev/null 2>&1 & serve`,
  'ends at once': 'exit 3',
};

/** Kills the host in the first moment of its own life: the host has not even heard that it started. */
export const hostKiller = `kill -9 $PPID; ${sleeper}`;

const fixture = (name: string) => fileURLToPath(new URL(`../../../fixtures/mcp-servers/${name}`, import.meta.url));

/** The same kinds as programs; each costs as much as forty shells. */
export const nodeServers: readonly string[] = ['tiny.mjs', 'stubborn.mjs', 'mute.mjs'];

const stdio = (command: string, ...args: string[]) => ({ kind: 'stdio', command, args }) as const;

export function shellServer(name: string, script: string, marker: string, isSandboxed: boolean): ToolboxServer {
  const transport = stdio('/bin/sh', '-c', `${serve}\n${script}`);
  return { name, transport, env: { MARKER: marker }, ...(isSandboxed ? { sandbox: { mode: 'preferred' } } : {}) };
}

export function nodeServer(name: string, script: string, marker: string): ToolboxServer {
  return { name, transport: stdio(process.execPath, fixture(script)), env: { MARKER: marker } };
}
