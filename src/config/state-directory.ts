import { isAbsolute, join } from 'node:path';

/** Where programs of this user keep what must survive: `$XDG_STATE_HOME/spear`, else `~/.local/state/spear`. */
export function stateDirectory(env: NodeJS.ProcessEnv): string | null {
  // The XDG rules: a relative path in the variable is to be ignored.
  if (env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)) return join(env.XDG_STATE_HOME, 'spear');
  const home = env.HOME || env.USERPROFILE;
  return home ? join(home, '.local', 'state', 'spear') : null;
}
