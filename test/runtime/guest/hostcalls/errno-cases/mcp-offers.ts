import { stdioRecord } from '../../../../agent/mcp/client/pool-samples.ts';
import { openServer, submitted } from '../../../../agent/mcp/mcp-calls.ts';
import type { TestGuest } from '../../../../support/test-guest.ts';
import { casesOf, type ErrnoCase } from './errno-case.ts';
import { dead, keepsLittle, keptAnswer, tiny, withMcp } from './mcp.ts';

const everything = { allowed_resources: Object.freeze(['*']), allowed_prompts: Object.freeze(['*']) };
const offers = Object.freeze({ ...stdioRecord('offers', 'offers.mjs'), ...everything });
/** Answers nothing once it is connected. */
const mute = Object.freeze({ ...stdioRecord('mute', 'offers.mjs', { env: { OFFERS: 'mute' } }), ...everything });
const hanging = stdioRecord('hanging', 'mid-call.mjs');

const list = (call: 'mcp_list_resources' | 'mcp_list_prompts') => (guest: TestGuest, fd: number, capacity: number) =>
  guest.call(call, fd, ...guest.heap.out(capacity).args);
const read = (guest: TestGuest, fd: number, uri: string, capacity = 64) =>
  guest.call('mcp_read_resource', fd, ...guest.text(uri), ...guest.heap.out(capacity).args);
const get = (guest: TestGuest, fd: number, name: string, args: string, capacity = 64) =>
  guest.call('mcp_get_prompt', fd, ...guest.text(name), ...guest.text(args), ...guest.heap.out(capacity).args);

function listErrnos(call: 'mcp_list_resources' | 'mcp_list_prompts'): readonly ErrnoCase[] {
  const ask = list(call);
  return casesOf(
    call,
    [
      'EACCES',
      'the server was removed',
      ...withMcp(async (guest, host) => {
        const fd = await openServer(guest, 'tiny');
        await host.remove('tiny');
        return ask(guest, fd, 64);
      }),
    ],
    [
      'ENOTCONN',
      'the server cannot be started',
      ...withMcp(async (guest) => ask(guest, await openServer(guest, 'dead'), 64), { records: [dead] }),
    ],
    [
      'ETIMEDOUT',
      'the server does not answer',
      ...withMcp(async (guest) => ask(guest, await openServer(guest, 'mute'), 64), {
        records: [mute],
        limits: { listTimeoutMs: 300 },
      }),
    ],
    ['ENOSPC', 'the buffer is small', ...withMcp(async (guest) => ask(guest, await openServer(guest, 'tiny'), 8))],
  );
}

const busy = async (guest: TestGuest) => submitted(guest, await openServer(guest, 'hanging'), 'hang', '{}');
const one = { records: [tiny, hanging], guestLimits: { max_pending_calls: 1 } };
const fewBytes = { records: [tiny, hanging], guestLimits: { max_pending_bytes: 1 } };

/** Of resources and prompts. */
export const offerErrnos: readonly ErrnoCase[] = [
  ...listErrnos('mcp_list_resources'),
  ...listErrnos('mcp_list_prompts'),
  ...casesOf(
    'mcp_read_resource',
    [
      'EMSGSIZE',
      'the uri is longer than a name may be',
      ...withMcp(async (guest) => read(guest, await openServer(guest, 'tiny'), `a:${'x'.repeat(5000)}`)),
    ],
    [
      'EAGAIN',
      'as many calls as there may be are pending',
      ...withMcp(async (guest) => {
        await busy(guest);
        return read(guest, await openServer(guest, 'tiny'), 'a:b');
      }, one),
    ],
    [
      'ENOMEM',
      'answers are kept',
      ...withMcp(async (guest) => read(guest, await keptAnswer(guest), 'a:b'), keepsLittle),
    ],
    [
      'ENOSPC',
      'the buffer is small',
      ...withMcp(async (guest) => read(guest, await openServer(guest, 'offers'), 'notes://notes/risks', 8), {
        records: [offers],
      }),
    ],
  ),
  ...casesOf(
    'mcp_get_prompt',
    [
      'EMSGSIZE',
      'the arguments are too large',
      ...withMcp(
        async (guest) => get(guest, await openServer(guest, 'tiny'), 'ask', '{"tone":"more than sixteen bytes"}'),
        { guestLimits: { max_message_bytes: 16 } },
      ),
    ],
    [
      'EAGAIN',
      'the arguments of calls in flight reach the limit',
      ...withMcp(async (guest) => {
        await busy(guest);
        return get(guest, await openServer(guest, 'tiny'), 'ask', '{"tone":"x"}');
      }, fewBytes),
    ],
    [
      'ENOMEM',
      'answers are kept',
      ...withMcp(async (guest) => get(guest, await keptAnswer(guest), 'ask', '{}'), keepsLittle),
    ],
    [
      'ENOSPC',
      'the buffer is small',
      ...withMcp(async (guest) => get(guest, await openServer(guest, 'tiny'), 'ask', '{}', 8)),
    ],
  ),
];
