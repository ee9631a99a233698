import type { ApiClient } from '../api-client.ts';
import type { Call } from '../command-table.ts';
import type { ProgramOutput } from '../run-program.ts';

export interface JsonFlag {
  readonly json: boolean;
}

/** Call of a command that talks to the admin API of a registry. */
export interface SpearContext<Flags = JsonFlag> extends ProgramOutput, Pick<Call<Flags>, 'flags' | 'args'> {
  readonly client: ApiClient;
  readonly env: NodeJS.ProcessEnv;
}

/** Resolves with the exit code. */
export type SpearCommand<Flags = JsonFlag> = (context: SpearContext<Flags>) => Promise<number>;

export const SERVERS_PATH = '/admin/api/mcp/servers';
export const PROFILES_PATH = '/admin/api/mcp/profiles';
export const TOKENS_PATH = '/admin/api/tokens';
export const STOPS_PATH = '/admin/api/stops';
export const APPROVALS_PATH = '/admin/api/approvals';

export function serverPath(id: string): string {
  return `${SERVERS_PATH}/${encodeURIComponent(id)}`;
}
