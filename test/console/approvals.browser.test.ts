import { afterEach, expect, it } from 'vitest';
import { clientAt, questionOf, waiting } from '../agent/approvals/asking-node.ts';
import { SteeredModel } from '../e2e/steered-model.ts';
import { startTestSms, stopAll } from '../registry/running-sms.ts';
import { createToken } from '../server/identity/token-calls.ts';
import { useBrowser } from '../support/browser.ts';
import { openConsole } from './console-page.ts';
import { notes, register, startNode } from './running-node.ts';

const open = useBrowser();
/** For a machine that is busy with other things. */
const SLOWEST_MS = 180_000;
const model = new SteeredModel();

afterEach(async () => {
  await model.stop();
  await stopAll();
});

it(
  'a call waits in the queue, is allowed on the page, and is made; another is denied with a reason [console.approve] [approval.seen]',
  async (test) => {
    const sms = await startTestSms();
    await register(sms, { ...notes, approval_policy: { default: 'always' } });
    const token = await createToken(sms, { name: 'ana', roles: ['approver'] });
    const console = await openConsole(open, test, sms, token);
    const { page } = console;
    await console.go('approvals', 'Approvals');
    await page.getByText('No pending approvals').waitFor();
    await startNode(sms, model, ['--approve', 'sms']);
    const first = await model.next();
    first.call('notes_read_text_file', { path: 'risks.md' });
    await page.getByRole('link', { name: 'notes › read_text_file' }).click();
    await page.getByRole('region', { name: 'Arguments' }).getByText('"risks.md"').waitFor();
    await page.getByText('review', { exact: true }).waitFor();
    await console.expectClean();
    await console.picture('approval');
    await page.getByRole('button', { name: 'Allow once' }).click();
    const second = await model.next();
    expect(second.messages.at(-1)?.content).toContain('Firmware 2.1 is not signed yet');
    await page.getByText('ana', { exact: true }).nth(1).waitFor();

    const long = `plan-${'x'.repeat(3_000)}.md`;
    second.call('notes_read_text_file', { path: long });
    await console.go('approvals', 'Approvals');
    await page.getByRole('link', { name: 'notes › read_text_file' }).click();
    const allow = page.getByRole('button', { name: 'Allow once' });
    await page.getByText('Show all arguments of the call before you allow it.').waitFor();
    expect(await allow.isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'Show all arguments' }).click();
    await page.getByRole('region', { name: 'Arguments' }).getByText(long).waitFor();
    expect(await allow.isDisabled()).toBe(false);
    await page.getByLabel('Reason').fill('not while the audit runs');
    await page.getByRole('button', { name: 'Deny' }).click();
    const third = await model.next();
    expect(third.messages.at(-1)?.content).toContain('not while the audit runs');
    await page.getByText('denied', { exact: true }).waitFor();
    await console.go('audit', 'Audit log');
    await page
      .getByRole('button', { name: /sms.approval_decided ana/ })
      .first()
      .waitFor();
    await console.expectClean();
  },
  SLOWEST_MS,
);

const requestPage = async (sms: Parameters<typeof waiting>[0]) =>
  `approvals/${encodeURIComponent((await waiting(sms))[0]?.approval_id ?? '')}`;

it('a request shows the submitter of the run, who cannot decide it [approval.self]', async (test) => {
  const sms = await startTestSms();
  const token = await createToken(sms, { name: 'sam', roles: ['approver'] });
  void clientAt(sms, 'sam').ask(questionOf());
  const console = await openConsole(open, test, sms, token);
  await console.go(await requestPage(sms), 'Approval');
  await console.page.getByText('sam on node-1').waitFor();
  await console.page.getByText('"sam" submitted the run of this call; another user must decide it').waitFor();
  expect(await console.page.getByRole('button', { name: 'Allow once' }).count()).toBe(0);
});

it('without authentication the page says that submitters can approve their own calls [approval.self]', async (test) => {
  const sms = await startTestSms({ auth: false });
  void clientAt(sms, 'sam').ask(questionOf());
  const path = await requestPage(sms);
  const { page } = await open(test, `${sms.sms.http}/console/#/${path}`);
  await page.getByText('the submitter of a run can approve its calls here').waitFor();
  expect(await page.getByRole('button', { name: 'Allow once' }).isDisabled()).toBe(false);
});

it('a user whose token another user rotated is notified [people.rotated]', async (test) => {
  const sms = await startTestSms();
  const token = await createToken(sms, { name: 'sam', roles: ['approver'] });
  await sms.http('POST', '/admin/api/tokens/sam/rotate', { json: {} });
  const { page } = await openConsole(open, test, sms, token);
  await page.getByText(/Your token was rotated by bootstrap-admin on \d{4}-/).waitFor();
});
