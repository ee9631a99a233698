import { join } from 'node:path';
import { cacheDirectory } from '../base/xdg-directories.ts';

/** Where compiled components are kept: they can be made again. */
export function componentCacheDirectory(env: NodeJS.ProcessEnv): string | null {
  const cache = cacheDirectory(env);
  return cache === null ? null : join(cache, 'components');
}
