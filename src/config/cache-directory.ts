import { isAbsolute, join } from 'node:path';

/** Where programs of this user keep what can be made again: `$XDG_CACHE_HOME/spear`, else `~/.cache/spear`. */
export function cacheDirectory(env: NodeJS.ProcessEnv): string | null {
  // The XDG rules: a relative path in the variable is to be ignored.
  if (env.XDG_CACHE_HOME && isAbsolute(env.XDG_CACHE_HOME)) return join(env.XDG_CACHE_HOME, 'spear');
  const home = env.HOME || env.USERPROFILE;
  return home ? join(home, '.cache', 'spear') : null;
}

/** The compiled components among it. */
export function componentCacheDirectory(env: NodeJS.ProcessEnv): string | null {
  const cache = cacheDirectory(env);
  return cache === null ? null : join(cache, 'components');
}
