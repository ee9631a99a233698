import { describe, expect, it } from 'vitest';
import {
  cacheDirectory,
  componentCacheDirectory,
  configDirectory,
  stateDirectory,
} from '../../src/config/directories.ts';

describe.each([
  ['what can be made again', cacheDirectory, 'XDG_CACHE_HOME', '.cache'],
  ['configuration', configDirectory, 'XDG_CONFIG_HOME', '.config'],
  ['what must survive', stateDirectory, 'XDG_STATE_HOME', '.local/state'],
] as const)('where %s is kept', (_, directoryOf, variable, inHome) => {
  it.each([
    [{ [variable]: '/var/own', HOME: '/home/me' }, '/var/own/spear'],
    [{ [variable]: 'relative', HOME: '/home/me' }, `/home/me/${inHome}/spear`],
    [{ [variable]: '', HOME: '/home/me' }, `/home/me/${inHome}/spear`],
    [{ USERPROFILE: '/users/me' }, `/users/me/${inHome}/spear`],
    [{}, null],
  ])('%j: %s', (env: NodeJS.ProcessEnv, directory) => {
    expect(directoryOf(env)).toBe(directory);
  });
});

it('keeps compiled components among what can be made again', () => {
  expect(componentCacheDirectory({ HOME: '/home/me' })).toBe('/home/me/.cache/spear/components');
  expect(componentCacheDirectory({})).toBeNull();
});
