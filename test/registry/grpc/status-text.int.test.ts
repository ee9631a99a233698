import { Code, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterEach, expect, it } from 'vitest';
import { ApprovalService } from '../../../src/generated/proto/sms/approval_pb.ts';
import { startTestSms, stopAll } from '../running-sms.ts';

afterEach(stopAll);

it('cuts the text of a status that repeats a long value of the caller, so that the call still has its status', async () => {
  const sms = await startTestSms();
  const client = createClient(ApprovalService, createGrpcTransport({ baseUrl: `http://${sms.sms.grpc}` }));
  const headers = { authorization: `Bearer ${sms.nodeToken}` };
  const refused = client.withdrawApproval({ approvalId: 'x'.repeat(70_000) }, { headers });
  await expect(refused).rejects.toMatchObject({
    code: Code.NotFound,
    rawMessage: expect.stringMatching(/^.{1,1000}$/),
  });
  expect(sms.logged.filter((line) => line.includes('grpc_broken'))).toEqual([]);
});
