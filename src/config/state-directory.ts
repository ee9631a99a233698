import { isAbsolute, join } from 'node:path';

/** Where this user's Spear keeps what outlives a run. Undefined if there is no home to keep it in. */
export function stateDirectory(env: NodeJS.ProcessEnv): string | undefined {
  if (env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)) return join(env.XDG_STATE_HOME, 'spear');
  const home = env.HOME || env.USERPROFILE;
  return home ? join(home, '.local', 'state', 'spear') : undefined;
}
