// Linux errno numbers whatever the host platform: guests were compiled against these.
export const errno = {
  EPERM: 1,
  ENOENT: 2,
  EINTR: 4,
  EIO: 5,
  EBADF: 9,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EFAULT: 14,
  EBUSY: 16,
  EEXIST: 17,
  EINVAL: 22,
  EMFILE: 24,
  ENOSPC: 28,
  EPIPE: 32,
  ENOSYS: 38,
  EMSGSIZE: 90,
  ECONNRESET: 104,
  ENOTCONN: 107,
  ETIMEDOUT: 110,
  ECANCELED: 125,
} as const;

export type ErrnoName = keyof typeof errno;

/** Errors of WASI preview 1, which have other numbers. */
export const wasiErrno = { SUCCESS: 0, BADF: 8, FAULT: 21, INVAL: 28, IO: 29, NOSYS: 52, SPIPE: 70 } as const;

export const errnoNames = Object.keys(errno) as ErrnoName[];

/**
 * The failure of a hostcall, as its handler returns it. One object per errno, so that failing allocates nothing; only the
 * binding turns it into a number.
 */
export class Failure {
  readonly name: ErrnoName;
  readonly returned: number;

  constructor(name: ErrnoName) {
    this.name = name;
    this.returned = -errno[name];
  }
}

export const fail = Object.freeze(
  Object.fromEntries(errnoNames.map((name) => [name, Object.freeze(new Failure(name))])),
) as Readonly<Record<ErrnoName, Failure>>;
