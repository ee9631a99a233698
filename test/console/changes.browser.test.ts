import { afterEach, expect, it } from 'vitest';
import { fsRecord, startTestSms, stopAll } from '../registry/running-sms.ts';
import { createToken } from '../server/identity/token-calls.ts';
import { useBrowser } from '../support/browser.ts';
import { ConsolePage, openConsole } from './console-page.ts';
import { register } from './running-node.ts';

const open = useBrowser();
afterEach(stopAll);

/** Resolved on the node. */
const REFERENCE = ['$', '{ENV:MCP_TOKEN}'].join('');

it('adds a server that is checked as it is typed, after its difference was seen [console.edit]', async (test) => {
  const sms = await startTestSms();
  const console = await openConsole(open, test, sms);
  const { page } = console;
  await console.go('servers', 'Servers');
  await page.getByText('No servers yet').waitFor();
  await console.expectClean();
  await page.getByRole('link', { name: 'Add a server' }).click();
  await page.getByLabel('Id').fill('-wrong-');
  await page
    .getByText(/server_id: .*starting with a letter or digit/)
    .first()
    .waitFor();
  const review = page.getByRole('button', { name: 'Review changes' });
  expect(await review.isDisabled()).toBe(true);
  await page.getByLabel('Id').fill('files');
  await page.getByLabel('Command').fill('mcp-files');
  await page.getByLabel('Arguments').fill('/data\n--read-only');
  await page.getByLabel('Environment').fill(`MODE=quiet\nTOKEN=${REFERENCE}`);
  await page.getByText('The server is valid').waitFor();
  await review.click();
  await page.getByRole('region', { name: 'Changes' }).getByText('"--read-only"').waitFor();
  await console.expectClean();
  await console.picture('server-review');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: 'files', exact: true }).waitFor();
  const { body } = await sms.http('GET', '/admin/api/mcp/servers/files');
  expect(body).toMatchObject({
    stdio: { command: 'mcp-files', args: ['/data', '--read-only'], env: { TOKEN: REFERENCE } },
  });
  // A mask goes out and comes back, and the secret stays what it was.
  await console.go('servers/files/edit', 'Edit files');
  await page.getByLabel('Name').fill('Files of the team');
  await page.getByText('The server is valid').waitFor();
  await review.click();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: 'files', exact: true }).waitFor();
  const whole = await sms.http('GET', '/api/v1/mcp/servers/files');
  expect(whole.body).toMatchObject({ display_name: 'Files of the team', stdio: { env: { MODE: 'quiet' } } });
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('button', { name: 'Remove server' }).click();
  await page.getByText('No servers yet').waitFor();
  expect(console.complaints()).toEqual([]);
});

it('of two who edit the same server one is told, and sees what the other changed [console.conflict]', async (test) => {
  const sms = await startTestSms();
  await register(sms, fsRecord);
  const one = await openConsole(open, test, sms);
  const second = await one.page.context().newPage();
  await second.goto(`${sms.sms.http}/console/`);
  const two = await new ConsolePage({ page: second, said: [] }).signIn(sms.adminToken);
  for (const { page } of [one, two]) {
    await page.evaluate(`location.hash = '#/servers/fs/edit'`);
    await page.getByText('The server is valid').waitFor();
  }
  await one.page.getByLabel('Name').fill('Named by the first');
  await two.page.getByLabel('Name').fill('Named by the second');
  for (const { page } of [one, two]) await page.getByRole('button', { name: 'Review changes' }).click();
  await one.page.getByRole('button', { name: 'Save' }).click();
  await one.page.getByRole('heading', { level: 1, name: 'fs', exact: true }).waitFor();
  await two.page.getByRole('button', { name: 'Save' }).click();
  await two.page.getByText('Another user changed this server first').waitFor();
  await two.page.getByRole('button', { name: 'Continue editing' }).click();
  await two.page.getByRole('region', { name: 'Change by the other user' }).getByText('Named by the first').waitFor();
  await two.expectClean();
  await two.picture('server-conflict');
  expect((await sms.http('GET', '/admin/api/mcp/servers/fs')).body.display_name).toBe('Named by the first');
  await two.page.getByLabel('Tags').fill('mine');
  await two.page.getByLabel('Name').fill('fs');
  await two.page.getByRole('button', { name: 'Apply my changes to the new revision' }).click();
  await expect.poll(() => two.page.getByLabel('Name').inputValue()).toBe('Named by the first');
  await two.page.getByText('The server is valid').waitFor();
  await two.page.getByRole('button', { name: 'Review changes' }).click();
  await two.page.getByRole('button', { name: 'Save' }).click();
  await two.page.getByRole('heading', { level: 1, name: 'fs', exact: true }).waitFor();
  const { body } = await sms.http('GET', '/admin/api/mcp/servers/fs');
  expect(body).toMatchObject({ display_name: 'Named by the first', tags: ['mine'] });
});

it('offers a viewer nothing to change, and the registry refuses it all the same [console.roles]', async (test) => {
  const sms = await startTestSms();
  await register(sms, fsRecord);
  const token = await createToken(sms, { name: 'watcher', roles: ['viewer'] });
  const console = await openConsole(open, test, sms, token);
  const { page } = console;
  const forbidden = /Add|Edit|Remove|Test|Save|Create|Revoke|Rotate|Allow|Deny|Review/;
  for (const [path, heading] of [
    ['servers', 'Servers'],
    ['servers/fs', 'fs'],
    ['people', 'Users'],
    ['approvals', 'Approvals'],
    ['profiles', 'Profiles'],
  ] as const) {
    await console.go(path, heading);
    await page.getByRole('status').first().waitFor();
    expect(await page.getByRole('main').getByRole('button', { name: forbidden }).count()).toBe(0);
    expect(await page.getByRole('main').getByRole('link', { name: forbidden }).count()).toBe(0);
  }
  // Who types the address of the editor gets no further either.
  await console.go('servers/fs/edit', 'Edit fs');
  await page.getByText(/Request failed \(403 not-permitted\)/).waitFor();
  await console.expectClean();
  const { status, body } = await sms.http('PUT', '/admin/api/mcp/servers/fs', { json: fsRecord, token });
  expect([status, body.type]).toEqual([403, 'urn:spear:problem:not-permitted']);
});

it('keeps the token in memory alone, and asks again when it is revoked [console.token]', async (test) => {
  const sms = await startTestSms();
  const token = await createToken(sms, { name: 'guest', roles: ['viewer'] });
  const { page, said } = await open(test, `${sms.sms.http}/`);
  const console = new ConsolePage({ page, said });
  expect(page.url()).toBe(`${sms.sms.http}/console/`);
  await console.expectClean();
  await console.picture('sign-in');
  await page.getByLabel('Token').fill('not-a-token');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('does not know this token').waitFor();
  await page.getByLabel('Token').fill(sms.nodeToken);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(/this needs permission to view the registry/).waitFor();
  await console.signIn(token);
  await console.go('overview', 'Overview');
  const kept = await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie])');
  expect(kept).toBe('[{},{},""]');
  await sms.http('DELETE', '/admin/api/tokens/guest');
  await page.getByText('You are signed out').waitFor();
  await page.reload();
  await page.getByLabel('Token').waitFor();
});

it('says when the connection is lost, and catches up when it is back [console.live]', async (test) => {
  const sms = await startTestSms();
  const console = await openConsole(open, test, sms);
  const { page } = console;
  await console.go('servers', 'Servers');
  await page.getByText('No servers yet').waitFor();
  await page.getByText('live', { exact: true }).waitFor();
  await register(sms, fsRecord);
  await page.getByRole('link', { name: 'fs' }).waitFor();
  // A registry that is away: nothing of it is answered.
  await page.context().setOffline(true);
  await sms.restart();
  await page.getByText('Connection to the registry lost.').waitFor();
  await console.expectClean();
  await console.picture('lost');
  await register(sms, { ...fsRecord, server_id: 'made-meanwhile' });
  await page.context().setOffline(false);
  await page.getByRole('link', { name: 'made-meanwhile' }).waitFor();
  await page.getByText('Connection to the registry lost.').waitFor({ state: 'hidden' });
});
