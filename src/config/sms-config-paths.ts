import { isAbsolute, join } from 'node:path';

/** Where programs of this user keep what must survive: `$XDG_STATE_HOME/spear`, else `~/.local/state/spear`. */
export function stateDirectory(env: NodeJS.ProcessEnv): string | null {
  // The XDG rules: a relative path in the variable is to be ignored.
  if (env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)) return join(env.XDG_STATE_HOME, 'spear');
  const home = env.HOME || env.USERPROFILE;
  return home ? join(home, '.local', 'state', 'spear') : null;
}

/** What an SMS keeps beside its data: where it listens, and the tokens that it made. */
export interface SmsFiles {
  readonly data: string;
  readonly adminToken: string;
  readonly nodeToken: string;
  readonly endpoint: string;
}

export function smsFiles(directory: string): SmsFiles {
  return {
    data: join(directory, 'registry.db'),
    adminToken: join(directory, 'admin.token'),
    nodeToken: join(directory, 'node.token'),
    endpoint: join(directory, 'endpoint.json'),
  };
}

/** The directory of an SMS that was started without a word about its data. */
export function defaultSmsDirectory(env: NodeJS.ProcessEnv): string | null {
  const state = stateDirectory(env);
  return state === null ? null : join(state, 'sms');
}
