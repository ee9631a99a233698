import { command, type Program } from '../command-table.ts';
import { spearletFlags } from './flags.ts';

export const spearletProgram = {
  name: 'spearlet',
  commands: [
    command({
      path: 'spearlet',
      summary: 'run a node, which accepts runs over HTTP, queues them and runs their guests.',
      description: [
        'Serves until SIGINT or SIGTERM. Without options it listens on loopback and keeps its data in the state directory of this user. Queue, results, journals and tasks are files under --data: a node that was killed resumes its runs at the next start. When it is ready it prints one line of JSON on stdout: {"http":"http://HOST:PORT"}.',
        'Flags override the config file; the config field is in parentheses.',
        'Tokens: the first start writes admin.token and submitter.token under --data, readable by their owner only. "Authorization: Bearer TOKEN": the admin token allows everything; the submitter token allows runs in the namespace "default". [[node.submitters]] of the config lists further ones, each with its namespace. SIGHUP reads the token files again. With --sms, users authenticate with their registry tokens (spear tokens create --role submitter), and of the local files only admin.token is valid.',
      ],
      flags: spearletFlags,
      examples: [
        'spearlet --task-dir tasks.d --mcp-dir mcp.d',
        'spearlet --sms 127.0.0.1:50051 --slots 200',
        'spearlet --task-dir tasks.d --queue nats://127.0.0.1:4222',
      ],
      exitCodes: {
        0: 'stopped as requested',
        1: 'cannot start',
        2: 'invalid command line or config',
        3: 'a task was refused by --strict',
        '130, 143': 'stopped at once by a second SIGINT or SIGTERM; active runs resume at the next start',
      },
      load: async () => (await import('./command.ts')).serveNode,
    }),
  ],
} as const satisfies Program;
