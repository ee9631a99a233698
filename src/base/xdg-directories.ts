import { isAbsolute, join } from 'node:path';

/** Where programs of this user keep what can be made again: `$XDG_CACHE_HOME/spear`, else `~/.cache/spear`. */
export function cacheDirectory(env: NodeJS.ProcessEnv): string | null {
  return ownDirectory(env.XDG_CACHE_HOME, env, '.cache');
}

/** Where the user configures programs: `$XDG_CONFIG_HOME/spear`, else `~/.config/spear`. */
export function configDirectory(env: NodeJS.ProcessEnv): string | null {
  return ownDirectory(env.XDG_CONFIG_HOME, env, '.config');
}

/** Where programs of this user keep what must survive: `$XDG_STATE_HOME/spear`, else `~/.local/state/spear`. */
export function stateDirectory(env: NodeJS.ProcessEnv): string | null {
  return ownDirectory(env.XDG_STATE_HOME, env, '.local/state');
}

/** The XDG rules: a relative path in the variable is to be ignored. */
function ownDirectory(variable: string | undefined, env: NodeJS.ProcessEnv, inHome: string): string | null {
  if (variable && isAbsolute(variable)) return join(variable, 'spear');
  const home = env.HOME || env.USERPROFILE;
  return home ? join(home, inHome, 'spear') : null;
}
