import type { Dispatcher } from 'undici';
import { expect, it, vi } from 'vitest';
import {
  followedRedirect,
  HttpResponse,
  type HttpResponseHandlers,
} from '../../../../../src/agent/mcp/client/transport/http-response.ts';
import { until } from '../../../../support/until.ts';

const EVENT = 'data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y"}}\n\n';
const COUNT = 2_000;

/** A response of events whose connection is this test. */
function opened() {
  let messages = 0;
  const ended = vi.fn();
  const handlers: HttpResponseHandlers = {
    maxMessageBytes: 1024 * 1024,
    message: () => {
      messages += 1;
    },
    eventId: () => {},
    retry: () => {},
    oversized: () => {},
    opened: () => {},
    json: () => {},
    ended,
    accepted: () => {},
    refused: () => {},
    broken: () => {},
  };
  const request = { method: 'POST', url: new URL('http://server.example/mcp'), headers: {}, body: '{}' } as const;
  const response = new HttpResponse({} as Dispatcher, request, handlers);
  let isPaused = false;
  const resumed = vi.fn();
  const controller = {
    abort: vi.fn(),
    pause: () => {
      isPaused = true;
    },
    resume: () => {
      isPaused = false;
      resumed();
    },
  } as unknown as Dispatcher.DispatchController;
  response.onRequestStart(controller);
  response.onResponseStart(controller, 200, { 'content-type': 'text/event-stream' });
  return { response, controller, resumed, ended, messages: () => messages, isPaused: () => isPaused };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('of endless events is read in turns, between which the server waits', async () => {
  const { response, controller, resumed, messages, isPaused, ended } = opened();
  response.onResponseData(controller, Buffer.from(EVENT.repeat(COUNT)));
  const first = messages();
  expect([first > 0, first < COUNT / 4, isPaused()]).toEqual([true, true, true]);
  await turn();
  expect([messages() < COUNT / 2, isPaused()]).toEqual([true, true]);
  await until(() => resumed.mock.calls.length > 0, 'all to be read');
  expect(resumed).toHaveBeenCalledOnce();
  expect([messages(), isPaused()]).toEqual([COUNT, false]);
  response.onResponseEnd();
  expect(ended).toHaveBeenCalledExactlyOnceWith(true);
});

it('that nobody waits for any more is not read on', async () => {
  const { response, controller, resumed, messages } = opened();
  response.onResponseData(controller, Buffer.from(EVENT.repeat(COUNT)));
  const read = messages();
  response.drop();
  await turn();
  await turn();
  expect(messages()).toBe(read);
  expect(resumed).not.toHaveBeenCalled();
});

it('of an ordinary length is read at once', () => {
  const { response, controller, messages, isPaused } = opened();
  response.onResponseData(controller, Buffer.from(EVENT));
  expect([messages(), isPaused()]).toEqual([1, false]);
});

it.each([
  ['http://a.test:81/mcp', 'POST', 307, '/other?x=1', 'http://a.test:81/other?x=1'],
  ['http://a.test:81/mcp', 'POST', 308, 'http://a.test:81/x', 'http://a.test:81/x'],
  ['http://a.test/mcp', 'POST', 308, 'https://a.test/mcp', 'https://a.test/mcp'],
  ['http://a.test/mcp', 'GET', 302, '/x', 'http://a.test/x'],
  ['http://a.test/mcp', 'POST', 302, '/x', null],
  ['http://a.test/mcp', 'POST', 303, '/x', null],
  ['http://a.test/mcp', 'POST', 200, '/x', null],
  ['http://a.test/mcp', 'POST', 307, undefined, null],
  ['http://a.test/mcp', 'POST', 307, 'http://[', null],
  ['http://a.test/mcp', 'POST', 307, 'http://b.test/mcp', null],
  ['http://a.test/mcp', 'POST', 307, '//b.test/mcp', null],
  ['http://a.test/mcp', 'POST', 307, 'http://a.test:8080/mcp', null],
  ['http://a.test:81/mcp', 'POST', 307, 'https://a.test/mcp', null],
  ['https://a.test/mcp', 'POST', 307, 'http://a.test/mcp', null],
  ['http://a.test/mcp', 'POST', 307, 'http://me:pw@a.test/mcp', null],
  ['http://a.test/mcp', 'POST', 307, 'file:///etc/passwd', null],
] as const)('from %s, %s, %i to %s: %s', (from, method, status, location, to) => {
  expect(followedRedirect(new URL(from), method, status, location)?.href ?? null).toBe(to);
});
