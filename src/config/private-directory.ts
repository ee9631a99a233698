import { lstatSync, type Stats } from 'node:fs';
import { errorCode } from '../base/error-text.ts';

const OTHERS = 0o077;

/** Why `path` is not a directory that this user alone can enter; null: it is one. */
export function privateDirectoryProblem(path: string, uid: number | null = process.geteuid?.() ?? null): string | null {
  let stat: Stats;
  try {
    stat = lstatSync(path);
  } catch (error) {
    return `${path} cannot be accessed (${errorCode(error)})`;
  }
  if (!stat.isDirectory()) return `${path} is not a directory`;
  // Systems without numeric users have other ways to protect a directory; there nothing is checked.
  if (uid === null) return null;
  if (stat.uid !== uid) return `${path} belongs to another user (uid ${stat.uid})`;
  return (stat.mode & OTHERS) === 0 ? null : `${path} is accessible to other users; run: chmod 700 ${path}`;
}
