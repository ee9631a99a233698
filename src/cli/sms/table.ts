import { command, type Program, text } from '../command-table.ts';
import { smsServeFlags, storeFlags } from './flags.ts';

const FIRST_START =
  'Tokens: the first start writes admin.token and node.token next to the data, readable by their owner only. A file may hold several tokens, one per line; all are valid, and commands of this user use the first. To replace a token, add the new one as the first line, send SIGHUP, distribute it, then remove the old line and send SIGHUP again. A renewed TLS certificate is used within 10 s. "Authorization: Bearer TOKEN": the admin token allows everything, the node token allows list, watch and report.';

const done = { 0: 'done', 1: 'failed', 2: 'invalid command line or config' } as const;

const copyCommand = (verb: 'backup' | 'restore', summary: string) =>
  command({
    path: `spear-sms ${verb}`,
    summary,
    args: 'FILE',
    flags: storeFlags,
    examples: [`spear-sms ${verb} registry.backup`],
    exitCodes: done,
    load: async () => (await import('./command.ts'))[verb],
  });

export const smsProgram = {
  name: 'spear-sms',
  commands: [
    command({
      path: 'spear-sms',
      summary: 'serve the registry of MCP servers, tasks and users that nodes follow.',
      description: [
        'Serves until SIGINT or SIGTERM. Without options it listens on loopback and keeps its data in the state directory of this user. Commands of the same user reach it through sockets next to its data (sockets/grpc.sock, sockets/http.sock). When it is ready it prints one line of JSON on stdout: {"grpc":"HOST:PORT","http":"http://HOST:PORT"}.',
        'Flags override variables, variables override the config file; both names are in parentheses.',
        FIRST_START,
      ],
      flags: smsServeFlags,
      examples: [
        'spear-sms --mcp-registry-dir ./mcp.d',
        'spear-sms --mcp-registry-dir ./mcp.d --strict --dry-run',
        'spear-sms --grpc 0.0.0.0:50051 --tls-cert cert.pem --tls-key key.pem',
      ],
      exitCodes: {
        0: 'stopped as requested; with --dry-run: the directory is valid',
        1: 'cannot start',
        2: 'invalid command line or config',
        3: 'the directory was refused, by --strict or with --dry-run',
        '130, 143': 'stopped at once by a second SIGINT or SIGTERM',
      },
      load: async () => (await import('./command.ts')).serveRegistry,
    }),
    copyCommand('backup', 'write a consistent copy of the registry, also while it serves.'),
    copyCommand('restore', 'replace the registry with a copy; it must not be serving.'),
    command({
      path: 'spear-sms migrate',
      summary: 'copy all data of a registry to an empty place.',
      flags: {
        from: text('PLACE', 'source: sqlite:FILE or etcd://HOST:PORT,…', { required: true }),
        to: text('PLACE', 'target, which must be empty: sqlite:FILE or etcd://HOST:PORT,…', { required: true }),
        ...storeFlags,
      },
      examples: ['spear-sms migrate --from sqlite:registry.db --to etcd://127.0.0.1:2379'],
      exitCodes: done,
      load: async () => (await import('./command.ts')).migrateTo,
    }),
  ],
} as const satisfies Program;
