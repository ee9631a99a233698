import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

interface LockedPackage {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const lockfile = readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8');
const { packages } = JSON.parse(lockfile) as { packages: Readonly<Record<string, LockedPackage>> };
const named = Object.entries(packages);
const installed = named.filter(([place]) => place !== '');

/** Where Node finds a package that the one at this place asks for, by the lockfile alone. */
function isLocked(place: string, name: string): boolean {
  if (Object.hasOwn(packages, `${place === '' ? '' : `${place}/`}node_modules/${name}`)) return true;
  return place !== '' && isLocked(place.slice(0, Math.max(0, place.lastIndexOf('/node_modules/'))), name);
}

it('every package that another asks for is locked, those of other platforms too: npm ci refuses the file otherwise', () => {
  const missing = named.flatMap(([place, { dependencies, optionalDependencies }]) =>
    Object.keys({ ...dependencies, ...optionalDependencies })
      .filter((name) => !isLocked(place, name))
      .map((name) => `${name} of ${place}`),
  );
  expect(missing).toEqual([]);
});

it('every package is locked to a version, and to its bytes unless it is an optional one for some platforms alone', () => {
  expect(installed.filter(([, { version }]) => version === undefined)).toEqual([]);
  const unchecked = installed.filter(([, { integrity }]) => integrity === undefined);
  expect(unchecked.filter(([, { optional, os, cpu }]) => optional !== true || (os ?? cpu) === undefined)).toEqual([]);
});

it('names no registry, so that npm takes the one that is configured', () => {
  expect(lockfile).not.toContain('"resolved"');
});
