import { afterEach, expect, it } from 'vitest';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { useBrowser } from '../support/browser.ts';
import { openConsole } from './console-page.ts';

const open = useBrowser();
afterEach(stopAll);

it('shows an active stop with its reason on every page until it is lifted [console.stops]', async (test) => {
  const sms = await startTestSms();
  const console = await openConsole(open, test, sms);
  const { page } = console;
  const json = { scope: 'namespace', name: 'team-a', reason: '<b>incident</b> \u202e12' };
  const { body } = await sms.http('POST', '/admin/api/stops', { json });
  const notice = page.getByRole('alert').filter({ hasText: 'Stopped by an operator' });
  await notice.getByText('<b>incident</b>').waitFor();
  await console.go('servers', 'Servers');
  await notice.getByText('namespace team-a').waitFor();
  await console.expectClean();
  await sms.http('DELETE', `/admin/api/stops/${body.stop_id}`);
  await notice.waitFor({ state: 'detached' });
  expect(console.complaints()).toEqual([]);
});
