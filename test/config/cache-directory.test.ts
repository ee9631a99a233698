import { describe, expect, it } from 'vitest';
import { cacheDirectory, componentCacheDirectory } from '../../src/config/cache-directory.ts';

describe('where things are kept that can be made again', () => {
  it.each([
    [{ XDG_CACHE_HOME: '/var/cache/me', HOME: '/home/me' }, '/var/cache/me/spear'],
    [{ XDG_CACHE_HOME: 'relative', HOME: '/home/me' }, '/home/me/.cache/spear'],
    [{ XDG_CACHE_HOME: '', HOME: '/home/me' }, '/home/me/.cache/spear'],
    [{ USERPROFILE: '/users/me' }, '/users/me/.cache/spear'],
    [{}, null],
  ])('%j: %s', (env, directory) => {
    expect(cacheDirectory(env)).toBe(directory);
    expect(componentCacheDirectory(env)).toBe(directory && `${directory}/components`);
  });
});
