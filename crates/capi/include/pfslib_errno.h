/*
 * Errors of shared files, beyond those of the system. pfslib_perror prints them.
 */
#ifndef PFSLIB_ERRNO_H
#define PFSLIB_ERRNO_H

#include <errno.h>

#define EPFSLFIRST 5000 /* below it are the system's numbers */

#define EPFSLAUTH 5001     /* the cluster does not let this user in */
#define EPFSLBADF 5002     /* no open descriptor, or not of a shared file */
#define EPFSLBADFH 5003    /* the cluster does not know the open file any more */
#define EPFSLBADID 5004    /* no such request */
#define EPFSLCHLDEXIT 5005 /* a request failed: another process had left the file */
#define EPFSLCHLDSIG 5006  /* a request failed: another process was killed */
#define EPFSLINVAL 5007    /* impossible argument */
#define EPFSLIOLEN 5008    /* more bytes than one call can move */
#define EPFSLMFILE 5009    /* no descriptors left */
#define EPFSLMIXIO 5010    /* the processes have called what does not fit together */
#define EPFSLMREQUEST 5011 /* as many requests under way as there can be */
#define EPFSLNBYTES 5012   /* fewer bytes than were wanted */
#define EPFSLNDELAY 5013   /* O_NDELAY: use iread and iwrite */
#define EPFSLNOIOD 5014    /* a node whose disks are needed does not answer */
#define EPFSLREMOTE 5015   /* anything else that went wrong in the cluster */
#define EPFSLFORK 5016     /* not possible in a process that was forked */

/* Spellings that programs use. */
#define EPFSREMOTE EPFSLREMOTE
#define EPSFLINVAL EPFSLINVAL

#endif
