import { UsageError } from '../usage-error.ts';
import type { SpearFlags } from './flags.ts';
import type { SmsClient } from './sms-client.ts';

export interface SpearContext {
  readonly flags: SpearFlags;
  readonly client: SmsClient;
  readonly env: NodeJS.ProcessEnv;
  /** To stdout, as it is. */
  print(text: string): void;
  /** To stderr, a line. */
  say(text: string): void;
}

/** One command; resolves with the exit code. */
export type SpearCommand = (context: SpearContext) => Promise<number>;

/** A command with flags of its own: what follows its name on the command line, to the exit code. May throw a UsageError. */
export type OwnCommand = (argv: readonly string[]) => Promise<number>;

export const SERVERS_PATH = '/admin/api/mcp/servers';
export const PROFILES_PATH = '/admin/api/mcp/profiles';
export const TOKENS_PATH = '/admin/api/tokens';

export const APPROVALS_PATH = '/admin/api/approvals';

export function serverPath(id: string): string {
  return `${SERVERS_PATH}/${encodeURIComponent(id)}`;
}

export function oneArgument({ args, noun, verb }: SpearFlags, what: string): string {
  const [argument, ...more] = args;
  if (argument !== undefined && more.length === 0) return argument;
  throw new UsageError(`usage: spear ${noun} ${verb} ${what}`);
}

export function noArguments({ args, noun, verb }: SpearFlags): void {
  if (args.length > 0) throw new UsageError(`spear ${noun} ${verb} takes no ${JSON.stringify(args[0])}`);
}
