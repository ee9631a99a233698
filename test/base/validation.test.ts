import { expect, it } from 'vitest';
import { didYouMean, nearestKey } from '../../src/base/validation.ts';

const keys = ['kind', 'base_url', 'model', 'api_key', 'timeout_ms', 'connect_timeout_ms', 'max_retries', 'headers'];

it.each([
  ['modle', 'model'],
  ['modell', 'model'],
  ['mdel', 'model'],
  ['Model', 'model'],
  ['apiKey', 'api_key'],
  ['api-key', 'api_key'],
  ['baseurl', 'base_url'],
  ['timeout', 'timeout_ms'],
  ['timeout_msec', 'timeout_ms'],
  ['max_retry', 'max_retries'],
  ['header', 'headers'],
  ['kidn', 'kind'],
])('%s means %s', (unknown, meant) => {
  expect(nearestKey(unknown, keys)).toBe(meant);
});

it.each(['temperature', 'x', '', '___', 'completely_different'])('%j means nothing here', (unknown) => {
  expect(nearestKey(unknown, keys)).toBeUndefined();
});

it('the nearest wins, and no key is near where there is none', () => {
  expect(nearestKey('cart', ['cat', 'card', 'cart', 'carts'])).toBe('cart');
  expect(nearestKey('cart', [])).toBeUndefined();
});

it('asks whether it was meant', () => {
  expect(didYouMean('modle', keys)).toBe('did you mean "model"?');
  expect(didYouMean('zzz', keys)).toBeUndefined();
});
