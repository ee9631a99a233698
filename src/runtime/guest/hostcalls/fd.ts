import {
  canonicalJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseJson,
  tooDeepAt,
} from '../../../base/json.ts';
import { type Failure, fail } from '../../abi/errno.ts';
import { pollNames } from '../descriptors/readiness.ts';
import { type FdEntry, type FdKind, PendingEntry } from '../descriptors/table.ts';
import type { GuestState } from './guest-state.ts';
import type { Family } from './table.ts';

const SET_FLAGS = 1;
const GET_FLAGS = 2;
const GET_KIND = 3;
const GET_STATUS = 4;
const CLOSE = 6;

const NONBLOCK = 'O_NONBLOCK';

const flagNames = (nonblocking: boolean) => (nonblocking ? [NONBLOCK] : []);

const encoded = (value: JsonObject): Uint8Array => Buffer.from(canonicalJson(value));

const flagsJson = [false, true].map((nonblocking) => encoded({ flags: flagNames(nonblocking) }));

const kindsJson = new Map<FdKind, Uint8Array>();

function kindJson(kind: FdKind): Uint8Array {
  const known = kindsJson.get(kind);
  if (known) return known;
  const made = encoded({ kind });
  kindsJson.set(kind, made);
  return made;
}

/** Cached answers by kind, then by mask and flags: there are few states and many queries. */
const statusJson = new Map<FdKind, Uint8Array[]>();

function status({ kind, nonblocking }: FdEntry, mask: number): Uint8Array {
  const known = statusJson.get(kind) ?? [];
  const index = mask * 2 + Number(nonblocking);
  const json = known[index];
  if (json !== undefined) return json;
  const made = encoded({ closed: false, flags: flagNames(nonblocking), kind, poll_mask: pollNames(mask) });
  known[index] = made;
  statusJson.set(kind, known);
  return made;
}

/** `{"set":[…],"clear":[…]}`; clear wins, as the later of the two. */
function setFlags(entry: FdEntry, json: string): number | Failure {
  const wanted = parseGuestJson(json);
  if (!isJsonObject(wanted)) return fail.EINVAL;
  const { set = [], clear = [] } = wanted;
  const known = (list: unknown) => Array.isArray(list) && list.every((flag) => flag === NONBLOCK);
  if (!known(set) || !known(clear)) return fail.EINVAL;
  if ((set as string[]).length) entry.nonblocking = true;
  if ((clear as string[]).length) entry.nonblocking = false;
  return 0;
}

/** Opens a descriptor; a reached limit is reported as a notice. */
export function openFd(guest: GuestState, entry: FdEntry): number | Failure {
  return guest.fds.full ? tooManyFds(guest) : guest.fds.open(entry);
}

export function tooManyFds(guest: GuestState): Failure {
  guest.notice(`the guest has limits.max_fds = ${guest.limits.max_fds} descriptors open: EMFILE`);
  return fail.EMFILE;
}

/** The failure if a limit forbids one more call to the host whose result is retained. */
export function noRoomForCall(guest: GuestState): Failure | undefined {
  const { max_pending_calls: calls, max_answer_bytes: bytes } = guest.limits;
  if (guest.link.unanswered >= calls) guest.link.drain();
  if (guest.link.unanswered >= calls) {
    guest.notice(`the host still works on limits.max_pending_calls = ${calls} calls: EAGAIN`);
    return fail.EAGAIN;
  }
  if (guest.answerBytes < bytes) return undefined;
  guest.notice(`the guest keeps limits.max_answer_bytes = ${bytes} of answers open: ENOMEM`);
  return fail.ENOMEM;
}

export function paramTooLarge(guest: GuestState): Failure {
  guest.notice(`a parameter is larger than limits.max_param_bytes = ${guest.limits.max_param_bytes}: EMSGSIZE`);
  return fail.EMSGSIZE;
}

/** The `close` of every family: any of them closes any kind. */
export const closeFd = (guest: GuestState, fd: number): number | Failure => guest.fds.close(fd);

/** Metrics of an entry; polls the port before it returns EAGAIN. */
export function settledMetrics(guest: GuestState, entry: PendingEntry): string | Failure {
  if (entry.pending) guest.link.drain();
  return entry.metrics();
}

export const fdCalls: Family<'spear_fd_ctl' | 'spear_fd_cancel'> = {
  spear_fd_ctl(guest, fd, cmd, arg) {
    if (cmd === CLOSE) return closeFd(guest, fd);
    const entry = guest.fds.get(fd);
    if (!entry) return fail.EBADF;
    switch (cmd) {
      case SET_FLAGS:
        return typeof arg === 'string' ? setFlags(entry, arg) : paramTooLarge(guest);
      case GET_FLAGS:
        return flagsJson[Number(entry.nonblocking)] as Uint8Array;
      case GET_KIND:
        return kindJson(entry.kind);
      case GET_STATUS:
        guest.link.drain();
        return status(entry, entry.readiness());
      default:
        return entry instanceof PendingEntry ? settledMetrics(guest, entry) : fail.EBADF;
    }
  },

  spear_fd_cancel(guest, fd) {
    const entry = guest.fds.get(fd);
    if (!entry) return fail.EBADF;
    entry.cancel();
    return 0;
  },
};

/** Bounds the recursion of code that walks the value. */
export const MAX_JSON_DEPTH = 256;

/** JSON from a guest; `undefined`: invalid or nested too deeply. */
export function parseGuestJson(text: string): JsonValue | undefined {
  return tooDeepAt(text, MAX_JSON_DEPTH) === null ? parseJson(text) : undefined;
}
